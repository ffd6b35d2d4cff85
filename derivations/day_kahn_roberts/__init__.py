"""Source 000: H. Day, Y. Kahn, D. A. Roberts, "Feature learning and generalization in deep networks
with orthogonal weights" (2025). One module for each step of its sections 3, 5 and appendix A.1."""
