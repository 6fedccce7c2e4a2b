"""Methods of others to compare with: bilevel, by gradients, and by how well the rows kept stand for all."""
