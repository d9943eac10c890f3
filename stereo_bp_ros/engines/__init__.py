"""What computes: one engine per back end, chosen here and nowhere else."""
