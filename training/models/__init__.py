"""The networks: encoder, predictor, auxiliary head, and the world model that they make up."""
