//! The arguments of a launch: bytes laid out as the kernel's parameters are, without an allocation.

/// An address on a device. What it points to, and for how long, is known to whoever made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct DevicePtr(pub u64);

impl DevicePtr {
    pub const NULL: Self = Self(0);

    /// The address `bytes` further on.
    #[must_use]
    pub fn offset(self, bytes: u64) -> Self {
        Self(self.0 + bytes)
    }

    pub(crate) fn is_aligned(self, bytes: u64) -> bool {
        self.0.is_multiple_of(bytes)
    }
}

const MAX_BYTES: usize = 512;
/// Arguments of a launch.
pub const MAX_ARGS: usize = 16;

/// Arguments in the order of the kernel's parameters, each at a multiple of its alignment, as C lays out a structure.
#[derive(Clone, Copy)]
pub struct Args {
    bytes: AlignedBytes,
    /// Where each argument starts, and its size.
    places: [(u16, u16); MAX_ARGS],
    num_args: usize,
    len: usize,
}

/// Arguments are read from here by drivers, so each must lie at its own alignment in memory, too.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct AlignedBytes([u8; MAX_BYTES]);

impl Args {
    #[must_use]
    pub fn new() -> Self {
        Self { bytes: AlignedBytes([0; MAX_BYTES]), places: [(0, 0); MAX_ARGS], num_args: 0, len: 0 }
    }

    #[must_use]
    pub fn ptr(self, value: DevicePtr) -> Self {
        self.raw(&value.0.to_ne_bytes(), 8)
    }

    #[must_use]
    pub fn u32(self, value: u32) -> Self {
        self.raw(&value.to_ne_bytes(), 4)
    }

    #[must_use]
    pub fn u64(self, value: u64) -> Self {
        self.raw(&value.to_ne_bytes(), 8)
    }

    #[must_use]
    pub fn f32(self, value: f32) -> Self {
        self.raw(&value.to_ne_bytes(), 4)
    }

    /// A structure of 32-bit words, passed by value.
    #[must_use]
    pub fn words(mut self, values: &[u32]) -> Self {
        let start = self.begin(4 * values.len(), 4);
        for (to, value) in self.bytes.0[start..].chunks_exact_mut(4).zip(values) {
            to.copy_from_slice(&value.to_ne_bytes());
        }
        self
    }

    fn raw(mut self, value: &[u8], align: usize) -> Self {
        let start = self.begin(value.len(), align);
        self.bytes.0[start..start + value.len()].copy_from_slice(value);
        self
    }

    /// Room for the next argument: where it starts.
    fn begin(&mut self, size: usize, align: usize) -> usize {
        let start = self.len.next_multiple_of(align);
        assert!(start + size <= MAX_BYTES && self.num_args < MAX_ARGS, "no kernel of ours takes so many arguments");
        self.places[self.num_args] = (start as u16, size as u16);
        self.num_args += 1;
        self.len = start + size;
        start
    }

    /// The buffer, from the first argument to the end of the last.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes.0[..self.len]
    }

    /// Offset and size of each argument, in bytes.
    pub fn places(&self) -> impl ExactSizeIterator<Item = (u32, u32)> + '_ {
        self.places[..self.num_args].iter().map(|&(offset, size)| (u32::from(offset), u32::from(size)))
    }
}

impl Default for Args {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for Args {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let one = |(offset, size): (u32, u32)| &self.bytes.0[offset as usize..(offset + size) as usize];
        f.debug_list().entries(self.places().map(one)).finish()
    }
}
