"""A web shop: a web application, a worker and a database, deployed by their manifests."""
