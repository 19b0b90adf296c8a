-- How values are packed. Ids are the most of what an event takes: as text a random id is 36 bytes to LZ4, which knows
-- repetitions only, and little more than its 16 bytes to ZSTD, which knows how often each letter comes. Parts that exist
-- are packed anew as they are merged.

ALTER TABLE events
    MODIFY COLUMN key_hash CODEC(Delta(8), ZSTD(1)),
    MODIFY COLUMN business_key CODEC(ZSTD(1)),
    MODIFY COLUMN task_id CODEC(ZSTD(1)),
    MODIFY COLUMN event_id CODEC(ZSTD(1)),
    MODIFY COLUMN type CODEC(ZSTD(1)),
    MODIFY COLUMN time CODEC(Delta(8), T64, ZSTD(1)),
    MODIFY COLUMN task CODEC(ZSTD(1)),
    MODIFY COLUMN execution_id CODEC(ZSTD(1)),
    MODIFY COLUMN retries CODEC(ZSTD(1)),
    MODIFY COLUMN queue CODEC(ZSTD(1)),
    MODIFY COLUMN worker CODEC(ZSTD(1)),
    MODIFY COLUMN pid CODEC(T64, ZSTD(1)),
    MODIFY COLUMN effect_name CODEC(ZSTD(1)),
    MODIFY COLUMN effect_target CODEC(ZSTD(1)),
    MODIFY COLUMN idempotency_key CODEC(ZSTD(1)),
    MODIFY COLUMN amount CODEC(ZSTD(1)),
    MODIFY COLUMN skip_holder CODEC(ZSTD(1)),
    MODIFY COLUMN runtime CODEC(ZSTD(1)),
    MODIFY COLUMN request_id CODEC(ZSTD(1)),
    MODIFY COLUMN root_id CODEC(ZSTD(1)),
    MODIFY COLUMN parent_id CODEC(ZSTD(1)),
    MODIFY COLUMN traceparent CODEC(ZSTD(1)),
    MODIFY COLUMN args_digest CODEC(ZSTD(1)),
    MODIFY COLUMN kafka_partition CODEC(T64, ZSTD(1)),
    MODIFY COLUMN kafka_offset CODEC(Delta(8), ZSTD(1));

ALTER TABLE changed_keys
    MODIFY COLUMN kafka_offset CODEC(Delta(8), ZSTD(1)),
    MODIFY COLUMN business_key CODEC(ZSTD(1)),
    MODIFY COLUMN task_id CODEC(ZSTD(1)),
    MODIFY COLUMN kafka_time CODEC(Delta(8), ZSTD(1));

ALTER TABLE task_keys
    MODIFY COLUMN task_id CODEC(ZSTD(1)),
    MODIFY COLUMN task CODEC(ZSTD(1)),
    MODIFY COLUMN business_key CODEC(ZSTD(1)),
    MODIFY COLUMN kafka_time CODEC(ZSTD(1));

ALTER TABLE task_minutes MODIFY COLUMN events CODEC(ZSTD(1));

ALTER TABLE attempts
    MODIFY COLUMN task_id CODEC(ZSTD(1)),
    MODIFY COLUMN event_id CODEC(ZSTD(1));
