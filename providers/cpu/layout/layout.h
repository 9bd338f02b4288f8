/* layout.h - memory layouts of tensors (tensor_layout), and copies between them by plain loops (copy.c). */
#ifndef CPU_LAYOUT_H
#define CPU_LAYOUT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    CPU_MAX_RANK = 8, /* of every tensor of an offered node */
    TENSOR_MAX_RANK = 12,
    LAYOUT_MAX_BLOCKS = 4
};
typedef int64_t tensor_dims[TENSOR_MAX_RANK];

/* The types of elements. */
typedef enum element_type {
    ELEMENT_OTHER,
    ELEMENT_FLOAT,
    ELEMENT_INT32,
    ELEMENT_INT8,
    ELEMENT_UINT8,
    ELEMENT_INT64 /* of positions and indices, which are not computed */
} element_type;

/* PACKED: in the format of one kernel, which no other kernel reads. */
typedef enum layout_kind { LAYOUT_NONE, LAYOUT_STRIDED, LAYOUT_PACKED } layout_kind;

/* The memory layout of a tensor. Initialise all bytes with 0. */
typedef struct tensor_layout {
    int32_t rank; /* 0: no tensor */
    element_type type;
    layout_kind kind;
    int32_t block_count; /* blocks are for packed weights only */
    int64_t dims[TENSOR_MAX_RANK];
    int64_t padded_dims[TENSOR_MAX_RANK];  /* dims rounded up to whole blocks */
    int64_t strides[TENSOR_MAX_RANK];      /* of blocks, in elements */
    int64_t blocks[LAYOUT_MAX_BLOCKS];     /* sizes of the blocks, outermost first */
    int64_t block_axes[LAYOUT_MAX_BLOCKS]; /* axes of the blocks */
    uint64_t packed_bytes;                 /* of PACKED */
    uint32_t packing;                      /* of PACKED: equal numbers are equal layouts */
} tensor_layout;

/* A row-major float tensor. For other types set layout->type afterwards: strides count elements. */
void layout_plain(tensor_layout *layout, uint32_t rank, const int64_t *dims);
/* Sets the strides of a layout without blocks to row-major ones. */
void layout_set_row_major(tensor_layout *layout);
void layout_strides(tensor_layout *layout, uint32_t rank, const int64_t *dims, const int64_t *strides);
/* Are the elements in memory row-major without gaps? */
bool layout_is_plain(const tensor_layout *layout);
bool layout_is_dense(const tensor_layout *layout); /* no gaps, no padding */
bool layout_is_blocked(const tensor_layout *layout);
bool layout_is_image(const tensor_layout *layout); /* channels last without gaps */
/* Channels last, for tensors of rank 3 to 5: the fastest layout of most image kernels. */
void layout_channels_last(tensor_layout *layout, uint32_t rank, const int64_t *dims);
/* Channels last with any distance between pixels: the layout of all tiled kernels. */
bool tiles_accept_layout(const tensor_layout *layout);
int64_t tiles_pixel_step(const tensor_layout *layout);
/* Without gaps, axes in the order of input's strides; input has no blocks. */
void layout_packed(tensor_layout *layout, const tensor_layout *input);
/* Are the rows (along the last axis) dense and at equal distances? input is not blocked; *out_stride: elements. */
bool layout_has_rows(const tensor_layout *input, int64_t *out_stride);
/* The layout of the same memory with other dims of the same count; input is not blocked. false: elements must move. */
bool layout_reshaped(const tensor_layout *input, uint32_t rank, const int64_t *dims, tensor_layout *out);
/* For a reshape that must move elements: a layout of input's dims in which each set of axes that the reshape merges is
 * row-major, in the memory order that the sets have now. After a reorder into it, layout_reshaped succeeds.
 * false: there is no such layout, because the axes of a set are not adjacent in memory (merge.c). */
bool layout_merged(const tensor_layout *input, uint32_t rank, const int64_t *dims, tensor_layout *out);
/* Are the elements at the same offsets? Strides of axes with one element do not count. */
bool layout_equal(const tensor_layout *a, const tensor_layout *b);
int64_t layout_count(const tensor_layout *layout);
/* Offset of element i, counted in row-major order of `axes` axes with these dims, by its step along each axis. */
int64_t layout_offset(uint32_t axes, const int64_t *dims, const int64_t *steps, int64_t i);
uint64_t layout_bytes(const tensor_layout *layout);
size_t cpu_type_bytes(element_type type);
/* A float layout by its tag: axes from the outermost, then blocks from the outermost, such as
 * "aBcd16b". Axes are padded to whole blocks. false: no valid layout for these dims. */
bool layout_blocks(tensor_layout *layout, uint32_t rank, const int64_t *dims, const char *tag);
/* Copies elements of 4 bytes from one layout to another, with zeros as padding, if they are few. false: they are not,
 * and nothing was done. */
bool layout_copy(const tensor_layout *from, const void *source, const tensor_layout *to, void *target);
/* Copies the block [dims] from index `first` in both, of any size; padding is not written. */
bool layout_copy_part(const tensor_layout *from, const void *source, const tensor_layout *to, void *target,
                      const int64_t *dims, const int64_t *first);
#endif
