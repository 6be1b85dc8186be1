"""Where kernels switch, which kernel ran, and what a threshold costs."""
