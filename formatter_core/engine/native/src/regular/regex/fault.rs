//! The reasons why a pattern cannot be read, as numbers: `formatter_core/syntax/regex` has the sentences.

/// A reason, its position in the pattern in characters, and numbers that belong to it: the bounds of a piece of the
/// pattern, or counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fault {
    pub reason: Reason,
    pub position: usize,
    pub numbers: [u64; 2],
}

pub type Outcome<T> = Result<T, Fault>;

/// The reason of a fault; the numbers are part of the C interface.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(u32)]
pub enum Reason {
    NothingToRepeat = 1,
    BoundsSwapped = 2,
    NoGroupToClose = 3,
    GroupNotClosed = 4,
    EscapeNotFinished = 5,
    ClassNotClosed = 6,
    RangeSwapped = 7,
    NotACharacter = 8,
    BackReference = 9,
    LookBehindTooLong = 10,
    RoundsDiffer = 11,
    RoundsHaveNoEnd = 12,
    CaptureHidden = 13,

    EcmaMultiLine = 20,
    EcmaGroup = 21,
    EcmaOctal = 22,
    EcmaEscape = 23,
    EcmaPropertyForm = 24,
    EcmaProperty = 25,

    RustMultiLine = 40,
    RustCount = 41,
    RustLook = 42,
    RustName = 43,
    RustNameCharacter = 44,
    RustNameTwice = 45,
    RustFlag = 46,
    RustFlagsMissing = 47,
    RustBoundary = 48,
    RustEscape = 49,
    RustReference = 50,
    RustHexadecimal = 51,
    RustPropertyNotClosed = 52,
    RustProperty = 53,
    RustBoundaryInClass = 54,
    RustRangeOfClasses = 55,
    LoneSurrogate = 56,
    BytesOfDot = 57,
    BytesOfClass = 58,
    BytesOfPosix = 59,
    BytesOfEscape = 60,
    ByteAboveAscii = 61,
    ClassAboveAscii = 62,
    PropertyOfBytes = 63,

    Nodes = 80,
    Depth = 81,
    GroupDepth = 82,
    ClassDepth = 83,
    Repeat = 84,
    ClassWork = 85,
    AssertionWork = 86,
}

impl Reason {
    pub fn at(self, position: usize) -> Fault {
        self.with(position, [0; 2])
    }

    pub fn with(self, position: usize, numbers: [u64; 2]) -> Fault {
        Fault {
            reason: self,
            position,
            numbers,
        }
    }

    /// Return a fault at `position` about a piece of the pattern.
    pub fn about(self, position: usize, begin: usize, end: usize) -> Fault {
        self.with(position, [begin as u64, end as u64])
    }
}
