"""Who runs trials: back ends, and a lane for every group of nodes that can run one."""
