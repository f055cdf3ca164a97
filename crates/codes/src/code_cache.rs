//! Codes that were made once, for whoever meets several shapes.

use shorttail_units::CodeShape;

use crate::Code;
use crate::limits::CODES_MAX;

/// Codes by shape.
#[derive(Debug, Default)]
pub struct CodeCache {
    codes: Vec<(CodeShape, Code)>,
}

impl CodeCache {
    pub fn get(&mut self, shape: CodeShape) -> Code {
        if let Some((_, code)) = self.codes.iter().find(|(key, _)| *key == shape) {
            return code.clone();
        }
        let code = Code::new(shape);
        if self.codes.len() == CODES_MAX {
            // Who uses a code keeps it alive.
            self.codes.remove(0);
        }
        self.codes.push((shape, code.clone()));
        code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_is_made_once_and_the_oldest_goes() {
        let mut cache = CodeCache::default();
        let shape = |parity_count| CodeShape::reed_solomon(2, parity_count).expect("a shape");
        let first = cache.get(shape(0));
        first.read_plan(1, &|_| true).expect("it may be read");
        let remembers = |code: &Code| {
            let plans = [&first, code].map(|code| code.read_plan(1, &|_| true).expect("it may be read"));
            std::sync::Arc::ptr_eq(&plans[0], &plans[1])
        };
        assert!(remembers(&cache.get(shape(0))));
        for parity_count in 0..=CODES_MAX {
            assert_eq!(cache.get(shape(parity_count)).parity_count(), parity_count);
        }
        assert_eq!(cache.codes.len(), CODES_MAX);
        assert!(!remembers(&cache.get(shape(0))));
    }
}
