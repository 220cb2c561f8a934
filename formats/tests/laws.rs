//! Laws that hold for any text.
