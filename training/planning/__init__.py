"""Which actions lead to a goal? Search in imagined latents, with rules about boxes where there are any."""
