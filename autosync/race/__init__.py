"""Which discipline is first at a target: strategies train towards it one after the other, on paired seeds."""
