"""How good is a trained world model?"""
