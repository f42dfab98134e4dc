"""The fleet: back ends that run trials, with a lane for every group of nodes that can run one."""
