/* data/literal.h - values that are written as text: on the command line, and in the cells of a table.
 *
 *     1,2,3,4    [1,2,3,4]    [[1,2],[3,4]]    [["red"],["green"]] */
#ifndef DATA_LITERAL_H
#define DATA_LITERAL_H
#include "inlay/inlay.h"
#include <stdbool.h>

/* Whether the source is a list in brackets, or numbers (also nan, inf, true, false) that commas separate. */
bool literal_is(const char *source);
/* Makes the value of an input. A list without inner lists fills the shape of info, whose unknown sizes are 1 except for
 * the last of them; inner lists state the shape. INLAY_INVALID_ARGUMENT: diag names the place that does not fit. */
INLAY_NODISCARD inlay_status literal_load(const char *source, const inlay_io_info *info, inlay_value **out_value,
                                          inlay_diag *diag);

/* Gives a flat list the shape of the input, as above. False: count elements do not fill it. */
bool literal_fill(const inlay_io_info *info, int64_t count, int64_t *dims, uint32_t *out_rank);

/* Whether the text is a number, or a word that literal_put() takes for one. */
bool literal_is_number(const char *text, size_t bytes);
/* Writes the text of a number as element `index` of packed data: floats are rounded, integers and booleans exact.
 * Returns NULL, or the fault ("is not a number"). */
const char *literal_put(const char *text, size_t bytes, inlay_dtype dtype, void *data, int64_t index);
#endif
