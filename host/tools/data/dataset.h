/* data/dataset.h - the samples of --data, or random ones.
 *
 *     --data FILE.npz     an array for each input, under its name ('/' and ':' may read as '_'), or one array for the
 *                         only input; with one axis more than the input, or more rows along its first axis, the array
 *                         holds that many samples. Inputs whose first axis has the same name are cut together;
 *                         they are not cut if another axis has this name, too
 *     --data FILE.npy     the same for a model with one input
 *     --data DIR          <input>.npy or .pb for each input, as in --inputs; or folders of such files, and files as
 *                         above, each with one or several samples, in the order of their names */
#ifndef DATA_DATASET_H
#define DATA_DATASET_H
#include "data/feed.h"
#include "data/samples.h"

struct dataset;

/* path NULL: `most` random samples, those of inlay run with --seed 0, 1 ... Otherwise the samples of path, at most
 * `most` of them (0 = all). The caller's options and session must outlive the data set. Every input without a default
 * must be given, with the right rank; this call reads only the headers of the files. */
INLAY_NODISCARD inlay_status dataset_open(const char *path, uint32_t most, feed_caller caller,
                                          const inlay_session *session, struct dataset **out_dataset, inlay_diag *diag);
void dataset_close(struct dataset *dataset); /* NULL is a no-op */
/* The samples; they borrow from the data set and must be loaded by one thread. */
struct samples dataset_samples(struct dataset *dataset);
#endif
