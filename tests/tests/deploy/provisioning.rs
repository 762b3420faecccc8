//! provisioning
