/* kit/blocks.h - blocks of quantized weights, as GGUF files store them and UnpackBlocks of ai.inlay reads them.
 *
 * A block has one or several factors, and the codes of its elements. It is read as codes of 2, 4 or 8 bits, with a
 * scale and perhaps a zero point for each group of elements: (code - zero) * scale. All functions may be called by any
 * thread. Not installed: the host and its own providers share it.
 *
 * UnpackBlocks has the input blocks [..., blocks of a row, bytes of a block] of uint8; the attributes type (id of a
 * kit_block_type), columns (elements of a row), bits (2, 4 or 8), block_size (elements of a group) and joined; and the
 * outputs codes [..., groups of a row, bytes of a group], or joined [..., bytes of a row], scales and perhaps zeros
 * [..., groups of a row]. The host creates it only if a provider offers it; products of com.microsoft read it. */
#ifndef KIT_BLOCKS_H
#define KIT_BLOCKS_H
#include "inlay/types.h"
#include <stdbool.h>

struct inlay_node_info;

enum { KIT_MAX_BLOCK = 256 }; /* most elements of a block */

/* The scale of group i of a block is factor * scales[i]. With zero points, the value of a code is scale * code -
 * minimum_factor * minimums[i]. Both products of a factor are exact floats. */
typedef struct kit_block_scales {
    float factor, minimum_factor;
    int8_t scales[16], minimums[16];
} kit_block_scales;

typedef struct kit_block_type {
    uint32_t id; /* in files */
    const char *name;
    int64_t elements, bytes; /* of a block */
    int64_t bits, group;     /* of a code; elements that share a scale */
    /* Without zero points, codes minus kit_blocks_zero are signed integers of `least` bits; otherwise codes are
     * unsigned ones. */
    int64_t least;
    /* 16 codes of 8 bits, of which files have the 4-bit indexes; NULL: files have the codes themselves. */
    const uint8_t *table;
    bool zeros; /* has zero points; otherwise they are the middle of the codes */
    /* Unpacks a block: a byte with the code, or the index of the table, of each element (codes NULL: not wanted), a
     * scale and with zeros a zero point for each group. */
    void (*unpack)(const uint8_t *block, uint8_t *codes, float *scales, float *zeros);
    /* Reads the scales of a block of KIT_MAX_BLOCK elements. NULL: the scales of this type are not a factor of the
     * block times small integers. */
    void (*read_scales)(const uint8_t *block, kit_block_scales *out);
} kit_block_type;
/* NULL: not known. */
const kit_block_type *kit_block_type_of(int64_t id);

/* How blocks are read: with the bits and groups of the type, with more bits and smaller groups, or, with 4 bits, as the
 * indexes of the type's table. */
typedef struct kit_blocks {
    const kit_block_type *type;
    int64_t bits, group;
} kit_blocks;
/* false: the type is not known, or has no such codes. kit_blocks_of: as an UnpackBlocks reads them. */
bool kit_blocks_of(const struct inlay_node_info *node, kit_blocks *blocks);
bool kit_blocks_init(kit_blocks *blocks, int64_t type, int64_t bits, int64_t group);
/* Do `bytes` bytes of blocks have as many bytes of codes, and groups? */
bool kit_blocks_fit(const kit_blocks *blocks, uint64_t bytes, uint64_t code_bytes, uint64_t groups);
/* The bytes of all results of an UnpackBlocks that reads `bytes` bytes of blocks, which packs have, too; 0: the node is
 * another one. */
uint64_t kit_blocks_unpacked_bytes(const struct inlay_node_info *node, uint64_t bytes);
/* The zero point of all elements of a type that has none. */
static inline float kit_blocks_zero(const kit_blocks *blocks)
{
    return (float)(1 << (blocks->type->bits - 1));
}
/* Reads `count` blocks. codes (4, 2 or 1 in a byte), scales and zeros may be NULL. */
void kit_blocks_read(const kit_blocks *blocks, const void *from, int64_t count, void *codes, float *scales,
                     float *zeros);

#endif
