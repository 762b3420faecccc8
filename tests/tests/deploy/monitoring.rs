//! monitoring
