/* color.h - sRGB and CIE Lab.
 * Layer: image */
#ifndef QKV_COLOR_H
#define QKV_COLOR_H

#include <qkv/base.h>

QKV_BEGIN_DECLS

/* Converts n pixels of 3 values: sRGB (IEC 61966-2-1) in [0, 1] <-> Lab with white point D65: L in
 * [0, 100]; a (green to red) and b (blue to yellow) in +-110 for colours of sRGB. The constants are
 * scikit-image's. Colours outside sRGB are clipped. In place is allowed. */
void qkv_srgb_to_lab(qkv_real *lab, const qkv_real *rgb, size_t n);
void qkv_bytes_to_lab(qkv_real *lab, const uint8_t *rgb, size_t n); /* rgb in 0 .. 255 */
void qkv_lab_to_srgb(qkv_real *rgb, const qkv_real *lab, size_t n);

QKV_END_DECLS
#endif
