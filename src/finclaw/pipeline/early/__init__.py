"""What a person sees of an answer before its turn ends."""
