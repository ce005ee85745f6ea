"""Data sets: some made from known features, and the paper's real ones, from a folder."""

from ibp.datasets.real import Faces, Spectra, Tags, load_flickr_tags, load_piano, load_yale_faces
from ibp.datasets.synthetic import block_images, make_binary_factors, make_block_images

__all__ = [
    "Faces",
    "Spectra",
    "Tags",
    "block_images",
    "load_flickr_tags",
    "load_piano",
    "load_yale_faces",
    "make_binary_factors",
    "make_block_images",
]
