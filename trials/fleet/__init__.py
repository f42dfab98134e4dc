"""The fleet: back ends that run trials, and a lane for every group of nodes that can run one."""
