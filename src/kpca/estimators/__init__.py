"""KernelPCA and IncrementalKernelPCA: check, plan, run, keep."""
