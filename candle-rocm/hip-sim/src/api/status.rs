//! Which numbers does the runtime answer with? Those of `hipError_t`, with names and texts.

use std::ffi::{CStr, c_int};

/// A `hipError_t`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub c_int);

pub type Outcome = Result<(), Status>;

pub const SUCCESS: Status = Status(0);
pub const INVALID_VALUE: Status = Status(1);
pub const OUT_OF_MEMORY: Status = Status(2);
pub const NOT_INITIALIZED: Status = Status(3);
pub const INVALID_CONFIGURATION: Status = Status(9);
pub const INVALID_COPY_DIRECTION: Status = Status(21);
pub const NO_DEVICE: Status = Status(100);
pub const INVALID_DEVICE: Status = Status(101);
pub const INVALID_IMAGE: Status = Status(200);
pub const NO_BINARY_FOR_GPU: Status = Status(209);
pub const FILE_NOT_FOUND: Status = Status(301);
pub const INVALID_HANDLE: Status = Status(400);
pub const ILLEGAL_STATE: Status = Status(401);
pub const NOT_FOUND: Status = Status(500);
pub const NOT_READY: Status = Status(600);
pub const LAUNCH_FAILURE: Status = Status(719);
pub const NOT_SUPPORTED: Status = Status(801);
pub const CAPTURE_UNSUPPORTED: Status = Status(900);
pub const CAPTURE_INVALIDATED: Status = Status(901);
pub const CAPTURE_MERGE: Status = Status(902);
pub const CAPTURE_UNMATCHED: Status = Status(903);
pub const CAPTURE_UNJOINED: Status = Status(904);
pub const CAPTURE_ISOLATION: Status = Status(905);
pub const GRAPH_UPDATE_FAILURE: Status = Status(910);

const TEXTS: [(Status, &CStr, &CStr); 24] = [
    (SUCCESS, c"hipSuccess", c"no error"),
    (INVALID_VALUE, c"hipErrorInvalidValue", c"invalid argument"),
    (OUT_OF_MEMORY, c"hipErrorOutOfMemory", c"out of memory"),
    (NOT_INITIALIZED, c"hipErrorNotInitialized", c"initialization error"),
    (INVALID_CONFIGURATION, c"hipErrorInvalidConfiguration", c"invalid configuration argument"),
    (INVALID_COPY_DIRECTION, c"hipErrorInvalidMemcpyDirection", c"invalid copy direction for memcpy"),
    (NO_DEVICE, c"hipErrorNoDevice", c"no ROCm-capable device is detected"),
    (INVALID_DEVICE, c"hipErrorInvalidDevice", c"invalid device ordinal"),
    (INVALID_IMAGE, c"hipErrorInvalidImage", c"device kernel image is invalid"),
    (NO_BINARY_FOR_GPU, c"hipErrorNoBinaryForGpu", c"no kernel image is available for execution on the device"),
    (FILE_NOT_FOUND, c"hipErrorFileNotFound", c"file not found"),
    (INVALID_HANDLE, c"hipErrorInvalidHandle", c"invalid resource handle"),
    (ILLEGAL_STATE, c"hipErrorIllegalState", c"the operation cannot be performed in the present state"),
    (NOT_FOUND, c"hipErrorNotFound", c"named symbol not found"),
    (NOT_READY, c"hipErrorNotReady", c"device not ready"),
    (LAUNCH_FAILURE, c"hipErrorLaunchFailure", c"unspecified launch failure"),
    (NOT_SUPPORTED, c"hipErrorNotSupported", c"operation not supported"),
    (CAPTURE_UNSUPPORTED, c"hipErrorStreamCaptureUnsupported", c"operation not permitted when stream is capturing"),
    (
        CAPTURE_INVALIDATED,
        c"hipErrorStreamCaptureInvalidated",
        c"operation failed due to a previous error during capture",
    ),
    (CAPTURE_MERGE, c"hipErrorStreamCaptureMerge", c"operation would result in a merge of separate capture sequences"),
    (CAPTURE_UNMATCHED, c"hipErrorStreamCaptureUnmatched", c"capture was not ended in the same stream as it began"),
    (CAPTURE_UNJOINED, c"hipErrorStreamCaptureUnjoined", c"capturing stream has unjoined work"),
    (CAPTURE_ISOLATION, c"hipErrorStreamCaptureIsolation", c"dependency created on uncaptured work in another stream"),
    (GRAPH_UPDATE_FAILURE, c"hipErrorGraphExecUpdateFailure", c"graph update was not performed: the graphs differ"),
];

impl Status {
    pub fn name(self) -> &'static CStr {
        TEXTS.iter().find(|row| row.0 == self).map_or(c"hipErrorUnknown", |row| row.1)
    }

    pub fn text(self) -> &'static CStr {
        TEXTS.iter().find(|row| row.0 == self).map_or(c"unknown error", |row| row.2)
    }
}
