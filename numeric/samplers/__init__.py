"""Networks in, sums of products of their statistics out: four ways."""
