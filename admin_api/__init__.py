"""The broker over HTTP for operators: REST API, metrics, `rsocket-broker ctl`. Its contract: docs/admin-api.md."""
