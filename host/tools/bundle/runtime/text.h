/* text.h - tensors as text: on the command line of a bundle's program, and in what it prints.
 *
 *     1,2,3,4    [1,2,3,4]    [[1,2],[3,4]] */
#ifndef BUNDLE_TEXT_H
#define BUNDLE_TEXT_H
#include "bundle.h"

/* Whether the argument is values, as above, and no name of a file. */
int text_is_values(const char *text);
/* Writes the elements of the tensor, tensor->bytes. A list without inner lists fills any shape, inner lists must have
 * the shape. Returns NULL, or the error, whose place is
 * *out_at. */
const char *text_read(const char *text, const bundle_tensor *tensor, char *to, const char **out_at);
/* Prints name, type, shape and the first elements on one line. */
void text_print(const bundle_tensor *tensor, const char *from);
#endif
