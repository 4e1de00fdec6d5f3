"""`rsocket-broker ctl`: asks and steers a running broker through its admin API."""
