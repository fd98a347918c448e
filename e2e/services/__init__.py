"""Services: endpoints, reachability, load balancers."""
