/* data/hash.h - hashes of values, to compare results of different machines. */
#ifndef DATA_HASH_H
#define DATA_HASH_H
#include "base/sha256.h"
#include "inlay/inlay.h"

/* Adds kind, type, shape and elements of a value; all NaN count as equal. Elements in memory that the host cannot
 * access are left out. value may be NULL: no value. */
void value_hash(struct sha256 *sha256, const inlay_value *value);
/* The hash of one value, as 64 hex digits. */
void value_hash_hex(const inlay_value *value, char text[65]);
/* Another hash, of tensors: each element has its own bytes; in value_hash() each float has 8. So it takes half the
 * time. Other values have the same hash. */
void value_hash_tensor(const inlay_value *value, char text[65]);
#endif
