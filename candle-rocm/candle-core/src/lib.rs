//! Candle's core, 0.11.1, with an open device: everything that the published crate has, and [`Device::Custom`], a device that
//! another crate supplies by implementing the traits of [`custom`].

// Upstream's comments are upstream's; ours are checked.
#![allow(rustdoc::broken_intra_doc_links, rustdoc::bare_urls)]

// The two exported macros that Candle uses itself, under names that an included file may use.
macro_rules! bail {
    ($($message:tt)*) => {
        return Err($crate::Error::Msg(format!($($message)*)).bt())
    };
}
#[cfg(feature = "cuda")]
macro_rules! barg {
    ($builder:ident, $($value:expr),*) => {
        $(let __arg = $value; $builder.arg(&__arg);)*
    };
}

include!(concat!(env!("OUT_DIR"), "/upstream/lib.rs"));

#[cfg(feature = "cuda")]
mod cuda_libraries;
#[deny(rustdoc::broken_intra_doc_links, rustdoc::bare_urls)]
pub mod custom;
pub use custom::{CustomDevice, CustomQStorage, CustomStorage};
