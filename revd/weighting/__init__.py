"""How a bonus is scaled and weighed against the task's reward, without any framework."""
