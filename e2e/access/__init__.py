"""Access control: users, service accounts, roles, and suites that run as one of them."""
