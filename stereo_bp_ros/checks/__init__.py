"""What inputs and results must satisfy to be believed."""
