package rules

// Of gives what holds for a task, by name and patterns. It is for those who measure tasks by what the rules go by.
func (c *Config) Of(task string) Task { return c.of(task) }
