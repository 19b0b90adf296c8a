-- name: rules/usual_effects
-- Which effects some tasks do when they succeed, counted in a share of all keys: key_hash is spread evenly.
-- params: namespace String, tasks Array(String), top UInt64, since DateTime64(6, 'UTC'), until DateTime64(6, 'UTC'), arrived DateTime64(6, 'UTC')
-- returns: one row a task and effect, in order: in how many of the task's successful ids it was done
-- cost: the keys up to top
-- example: {"namespace": "", "tasks": ["shop.settle_order"], "top": 18446744073709551615, "since": "2026-11-01 00:00:00", "until": "2026-11-03 00:00:00", "arrived": "2026-11-03 00:00:00"}
WITH ids AS
(
    SELECT task, task_id, groupUniqArrayIf(effect_name, type = 'effect') AS effects
    FROM events
    WHERE key_hash <= {top:UInt64} AND namespace = {namespace:String} AND task IN {tasks:Array(String)} AND type IN ('effect', 'succeeded')
        AND kafka_time >= {since:DateTime64(6, 'UTC')} AND time <= {until:DateTime64(6, 'UTC')} AND kafka_time <= {arrived:DateTime64(6, 'UTC')}
    GROUP BY task, task_id
    HAVING countIf(type = 'succeeded') > 0
)
SELECT toString(i.task) AS name, toString(effect) AS effect, count() AS ids, max(t.ids) AS of_ids
FROM ids AS i
ARRAY JOIN i.effects AS effect
INNER JOIN (SELECT task, count() AS ids FROM ids GROUP BY task) AS t ON t.task = i.task
GROUP BY name, effect
ORDER BY name, effect
