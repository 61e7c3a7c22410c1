"""The weight of a bonus beside the task's reward, independent of any framework."""
