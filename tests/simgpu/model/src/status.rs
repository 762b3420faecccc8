//! What the driver's calls return: result codes with their names and descriptions.

/// A result code of the CUDA driver API, never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Status(pub i32);

/// The result of a simulated call.
pub type Result<T> = core::result::Result<T, Status>;

macro_rules! statuses {
    ($($name:ident = $code:literal $cuda:literal $text:literal;)*) => {
        impl Status {
            $(#[doc = $text] pub const $name: Self = Self($code);)*
        }
        /// Number, name and description of every known code.
        const TABLE: &[(i32, &str, &str)] = &[$(($code, concat!($cuda, "\0"), concat!($text, "\0"))),*];
    };
}

statuses! {
    SUCCESS = 0 "CUDA_SUCCESS" "no error";
    INVALID_VALUE = 1 "CUDA_ERROR_INVALID_VALUE" "invalid argument";
    OUT_OF_MEMORY = 2 "CUDA_ERROR_OUT_OF_MEMORY" "out of memory";
    NOT_INITIALIZED = 3 "CUDA_ERROR_NOT_INITIALIZED" "initialization error";
    DEINITIALIZED = 4 "CUDA_ERROR_DEINITIALIZED" "driver shutting down";
    DEVICE_UNAVAILABLE = 46 "CUDA_ERROR_DEVICE_UNAVAILABLE" "CUDA-capable device(s) is/are busy or unavailable";
    NO_DEVICE = 100 "CUDA_ERROR_NO_DEVICE" "no CUDA-capable device is detected";
    INVALID_DEVICE = 101 "CUDA_ERROR_INVALID_DEVICE" "invalid device ordinal";
    INVALID_IMAGE = 200 "CUDA_ERROR_INVALID_IMAGE" "device kernel image is invalid";
    INVALID_CONTEXT = 201 "CUDA_ERROR_INVALID_CONTEXT" "invalid device context";
    MAP_FAILED = 205 "CUDA_ERROR_MAP_FAILED" "mapping of buffer object failed";
    NO_BINARY_FOR_GPU = 209 "CUDA_ERROR_NO_BINARY_FOR_GPU" "no kernel image is available for execution on the device";
    PEER_ACCESS_UNSUPPORTED = 217 "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED" "peer access is not supported between these two devices";
    INVALID_HANDLE = 400 "CUDA_ERROR_INVALID_HANDLE" "invalid resource handle";
    NOT_FOUND = 500 "CUDA_ERROR_NOT_FOUND" "named symbol not found";
    NOT_READY = 600 "CUDA_ERROR_NOT_READY" "device not ready";
    ILLEGAL_ADDRESS = 700 "CUDA_ERROR_ILLEGAL_ADDRESS" "an illegal memory access was encountered";
    LAUNCH_TIMEOUT = 702 "CUDA_ERROR_LAUNCH_TIMEOUT" "the launch timed out and was terminated";
    PEER_ACCESS_ALREADY_ENABLED = 704 "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED" "peer access is already enabled";
    PEER_ACCESS_NOT_ENABLED = 705 "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED" "peer access has not been enabled";
    TOO_MANY_PEERS = 711 "CUDA_ERROR_TOO_MANY_PEERS" "peer mapping resources exhausted";
    LAUNCH_FAILED = 719 "CUDA_ERROR_LAUNCH_FAILED" "unspecified launch failure";
    NOT_PERMITTED = 800 "CUDA_ERROR_NOT_PERMITTED" "operation not permitted";
    NOT_SUPPORTED = 801 "CUDA_ERROR_NOT_SUPPORTED" "operation not supported";
    SYSTEM_NOT_READY = 802 "CUDA_ERROR_SYSTEM_NOT_READY" "system not yet initialized";
    SYSTEM_DRIVER_MISMATCH = 803 "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" "system has unsupported display driver / cuda driver combination";
    STREAM_CAPTURE_UNSUPPORTED = 900 "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" "operation not permitted when stream is capturing";
    UNKNOWN = 999 "CUDA_ERROR_UNKNOWN" "unknown error";
}

impl Status {
    /// Its name, e.g. `CUDA_ERROR_UNKNOWN`, NUL-terminated for C; `None` for an unknown code.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        TABLE
            .iter()
            .find(|(code, ..)| *code == self.0)
            .map(|(_, name, _)| *name)
    }

    /// Its description, NUL-terminated for C.
    #[must_use]
    pub fn text(self) -> Option<&'static str> {
        TABLE
            .iter()
            .find(|(code, ..)| *code == self.0)
            .map(|(.., text)| *text)
    }

    /// Whether it destroys the context in which it occurs.
    #[must_use]
    pub fn is_sticky(self) -> bool {
        matches!(
            self.0,
            214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719 | 721 | 999
        )
    }
}
