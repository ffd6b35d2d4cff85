"""Source 004: D. A. Roberts, S. Yaida, B. Hanin, *The Principles of Deep Learning Theory* (2022),
chapter 3, "Effective Theory of Deep Linear Networks at Initialization"."""
