/* panel.h - what stands above the progress line of a training on a terminal: the curves of the loss
 * so far and the latest sample. */
#ifndef QKV_CMD_TRAIN_PANEL_H
#define QKV_CMD_TRAIN_PANEL_H

#include "core/cli.h"

enum { PANEL_BINS = 512, PANEL_EVALUATIONS = 256, PANEL_TEXT = 12288, PANEL_SAMPLE = 200 };

typedef struct {
    double sum[PANEL_BINS]; /* of losses; bin i: updates i stride .. */
    size_t count[PANEL_BINS];
    uint64_t stride; /* updates in a bin */
    double held_step[PANEL_EVALUATIONS], held[PANEL_EVALUATIONS];
    size_t evaluations;
    char sample[4 * PANEL_SAMPLE]; /* UTF-8 without control characters; "": none yet */
    uint64_t sample_step;
    char text[PANEL_TEXT]; /* as it stands above the line */
} panel;

void panel_add(panel *p, uint64_t step, double loss);
void panel_add_held_out(panel *p, uint64_t step, double loss);
void panel_add_sample(panel *p, const cli *c, uint64_t step, const qkv_sample *sample);
/* What an earlier part of the run has logged. */
void panel_read(panel *p, const cli *c, const char *dir);

/* Text for so many columns, of a terminal of so many rows; NULL: there is no room, or nothing to
 * show. Lives until the next call. */
const char *panel_show(panel *p, int columns, int rows);

#endif
