/* layout.h - memory layouts of tensors (memory_desc), and copies between them by plain loops (copy.c). */
#ifndef CPU_LAYOUT_H
#define CPU_LAYOUT_H
#include "cpu/library/library.h"

enum { CPU_MAX_RANK = 8 }; /* of every tensor of an offered node */

/* A row-major float tensor. For other types set md->data_type afterwards: strides count elements. */
void memory_desc_plain(memory_desc *md, uint32_t rank, const int64_t *dims);
void memory_desc_any(memory_desc *md, uint32_t rank, const int64_t *dims);
void memory_desc_strides(memory_desc *md, uint32_t rank, const int64_t *dims, const int64_t *strides);
/* Are the elements in memory row-major without gaps? A blocked 1x1 image may be. */
bool memory_desc_is_plain(const memory_desc *md);
bool memory_desc_is_dense(const memory_desc *md); /* no gaps, no padding */
bool memory_desc_is_blocked(const memory_desc *md);
bool memory_desc_is_image(const memory_desc *md); /* blocked or channels last: the layouts of image kernels */
/* Channels last, for tensors of rank 3 to 5: the fastest layout of most image kernels. */
void memory_desc_channels_last(memory_desc *md, uint32_t rank, const int64_t *dims);
/* Channels last with any distance between pixels: the layout of all tiled kernels. */
bool tiles_accept_layout(const memory_desc *md);
int64_t tiles_pixel_step(const memory_desc *md);
/* The blocked layout of input for a tensor of other dims. false: input is not blocked by 8 or 16 channels only. */
bool memory_desc_same_blocks(const memory_desc *input, uint32_t rank, const int64_t *dims, memory_desc *out);
/* Without gaps, axes in the order of input's strides; input is not blocked. */
void memory_desc_packed(memory_desc *md, const memory_desc *input);
/* Are the rows (along the last axis) dense and at equal distances? input is not blocked; *out_stride: elements. */
bool memory_desc_has_rows(const memory_desc *input, int64_t *out_stride);
/* The layout of the same memory with other dims of the same count; input is not blocked. false: elements must move. */
bool memory_desc_reshaped(const memory_desc *input, uint32_t rank, const int64_t *dims, memory_desc *out);
/* For a reshape that must move elements: a layout of input's dims in which each set of axes that the reshape merges is
 * row-major, in the memory order that the sets have now. After a reorder into it, memory_desc_reshaped succeeds.
 * false: there is no such layout, because the axes of a set are not adjacent in memory (merge.c). */
bool memory_desc_merged(const memory_desc *input, uint32_t rank, const int64_t *dims, memory_desc *out);
/* Are the elements at the same offsets? Strides of axes with one element do not count. */
bool memory_desc_equal(const memory_desc *a, const memory_desc *b);
/* The axes of input in another order: axis d becomes axis to[d]. false: the library cannot describe the result. */
bool memory_desc_permuted(const memory_desc *input, const int *to, memory_desc *out);
int64_t memory_desc_count(const memory_desc *md);
uint64_t memory_desc_bytes(const memory_desc *md);
size_t cpu_type_bytes(library_type type);
/* The float layout that oneDNN calls dnnl_<tag>: axes from the outermost, then blocks from the outermost, such as
 * "aBcd16b". Axes are padded to whole blocks. false: no valid layout for these dims. */
bool memory_desc_blocks(memory_desc *md, uint32_t rank, const int64_t *dims, const char *tag);
/* Copies elements of 4 bytes from one layout to another, with zeros as padding, if they are so few that a plain loop
 * ends before a kernel would be created. false: they are not, and nothing was done. */
bool memory_desc_copy(const memory_desc *from, const void *source, const memory_desc *to, void *target);
/* Copies the block [dims] from index `first` in both, of any size; padding is not written. */
bool memory_desc_copy_part(const memory_desc *from, const void *source, const memory_desc *to, void *target,
                           const int64_t *dims, const int64_t *first);
#endif
