/* data/picture.h - picture files as inputs of numbers, prepared as models for pictures expect them. */
#ifndef DATA_PICTURE_H
#define DATA_PICTURE_H
#include "inlay/inlay.h"
#include <stdbool.h>

/* Prepares pictures for one input. One thread at a time. */
struct picture_reader;

/* Whether the name ends like that of a picture file. */
bool picture_is_file(const char *path);
/* Whether the input may be a picture: planes or pixels of numbers, with one channel or three. */
bool picture_fits(const inlay_io_info *info);
/* picture_fits() holds. The picture is scaled to the sizes of info; along an axis whose size is unknown it keeps its
 * own. The session's metadata tells whether its model is a detector (letterbox, 0 to 1) or not (centre, ImageNet's
 * mean). Of options, only those for finding plugins are used. INLAY_UNSUPPORTED and others: the plugin prepost is
 * missing. */
INLAY_NODISCARD inlay_status picture_open(const inlay_session *session, const inlay_io_info *info,
                                          const inlay_options *options, struct picture_reader **out_reader,
                                          inlay_diag *diag);
void picture_close(struct picture_reader *reader); /* NULL is a no-op */
/* The steps as `inlay pipe --pre` takes them. */
const char *picture_steps(const struct picture_reader *reader);
INLAY_NODISCARD inlay_status picture_load(struct picture_reader *reader, const char *path, inlay_value **out_value,
                                          inlay_diag *diag);
#endif
