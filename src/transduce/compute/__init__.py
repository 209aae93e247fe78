"""What computes: processors, devices, precisions and worker processes."""
