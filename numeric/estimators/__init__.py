"""What is measured, and tensors read off samples without bias."""
