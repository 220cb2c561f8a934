//! The API as its clients meet it: the document that describes it, requests as they send them, responses as they read
//! them.

mod document;
mod requests;
mod responses;
mod schema;
