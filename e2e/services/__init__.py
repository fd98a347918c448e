"""Services: their endpoints, their answers, their load balancers."""
