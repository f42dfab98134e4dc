"""The back ends of trials: in this process, or on Ray actors."""
