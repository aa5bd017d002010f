//! The checksum of stored formats. It reads the bytes as one little-endian number and returns the remainder of the
//! division by a prime of which 2 is a primitive root. It detects any damage within four consecutive bytes and any two
//! flipped bits; it misses other damage once in 2^32 cases.

/// The largest prime below 2^32; 2^32 modulo this prime is `REST`.
const PRIME: u64 = (1 << 32) - REST;
const REST: u64 = 5;

/// `WORDS` is the number of words per block; `POWERS[i]` is the remainder of 2^(32 * i).
const WORDS: usize = 8;
const POWERS: [u64; WORDS + 1] = powers();

const fn powers() -> [u64; WORDS + 1] {
    let mut powers = [1; WORDS + 1];
    let mut place = 1;
    while place <= WORDS {
        powers[place] = REST * powers[place - 1];
        place += 1;
    }
    powers
}

/// Return whether the last four bytes are the checksum of the bytes before them.
pub fn ends_with_checksum(data: &[u8]) -> bool {
    match data.len().checked_sub(4).map(|end| data.split_at(end)) {
        Some((data, last)) => checksum(data).to_le_bytes() == last,
        None => false,
    }
}

fn checksum(data: &[u8]) -> u32 {
    let blocks = data.chunks_exact(4 * WORDS);
    let mut last = [0; 4 * WORDS];
    last[..blocks.remainder().len()].copy_from_slice(blocks.remainder());
    let mut sum = 0;
    for block in std::iter::once(&last[..]).chain(blocks.rev()) {
        let words = block.chunks_exact(4).zip(POWERS);
        let products =
            words.map(|(word, power)| u64::from(u32::from_le_bytes([word[0], word[1], word[2], word[3]])) * power);
        // The sum stays below 2^53.
        sum = (sum % (1 << 32) + (sum >> 32) * REST) * POWERS[WORDS] + products.sum::<u64>();
    }
    (sum % PRIME) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_what_is_left_of_a_number() {
        let slowly = |data: &[u8]| {
            data.iter()
                .rev()
                .fold(0, |sum, byte| (256 * sum + u64::from(*byte)) % PRIME)
        };
        for length in 0..200 {
            let data: Vec<u8> = (0..length)
                .map(|place: u32| (place * place + 91 * length) as u8)
                .collect();
            assert_eq!(u64::from(checksum(&data)), slowly(&data));
            let most = vec![0xff; length as usize];
            assert_eq!(u64::from(checksum(&most)), slowly(&most));
        }
    }

    #[test]
    fn each_changed_bit_is_found() {
        let mut data: Vec<u8> = (0..100).collect();
        data.extend(checksum(&data).to_le_bytes());
        assert!(ends_with_checksum(&data));
        for bit in 0..8 * data.len() {
            data[bit / 8] ^= 1 << (bit % 8);
            assert!(!ends_with_checksum(&data));
            data[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(!ends_with_checksum(&data[..3]) && !ends_with_checksum(b""));
    }
}
