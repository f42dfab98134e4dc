"""Where trials run: in this process, or on Ray actors."""
