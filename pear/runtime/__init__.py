"""How any neural metric runs: devices, batches, weights, encoders, the hub."""
