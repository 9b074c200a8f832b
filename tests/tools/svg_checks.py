"""What every picture has to be: legible on a phone, described in words, fit for light and dark."""

import re
import xml.etree.ElementTree as ElementTree

from tools.drawing import picture, svg

SVG = "{http://www.w3.org/2000/svg}"
SMALLEST = 11  # pixels of text on a phone of 360 pixels


def texts(root):
    return list(root.iter(f"{SVG}text"))


def check_legible(drawing):
    """Texts are large enough and, like boxes, lie within the picture, which is described in words."""
    root = ElementTree.fromstring(drawing)
    _, _, width, height = map(float, root.get("viewBox").split())
    assert root.find(f"{SVG}title").text and len(root.find(f"{SVG}desc").text) > 40
    assert root.get("role") == "img"
    for element in texts(root):
        size = float(element.get("font-size"))
        assert size * 360 / width >= SMALLEST
        room = picture.width_of(element.text) * size / 14
        x, y = float(element.get("x")), float(element.get("y"))
        left = {"middle": x - room / 2, "end": x - room}.get(element.get("text-anchor"), x)
        if not element.get("transform"):
            assert left >= -1 and left + room <= width + 6, element.text
        assert size / 2 <= y <= height - 2
    for box in root.iter(f"{SVG}rect"):
        x, y, w, h = (float(box.get(key)) for key in ("x", "y", "width", "height"))
        assert x >= 0 and y >= 0 and x + w <= width and y + h <= height


def check_colours(drawing):
    """It uses the colours that have a light and a dark version, and fetches nothing."""
    assert "@media (prefers-color-scheme: dark)" in drawing
    used = {name for names in re.findall(r'class="([^"]+)"', drawing) for name in names.split()}
    assert used <= svg.COLORS.keys()
    assert "http" not in drawing.replace("http://www.w3.org/2000/svg", "")


def words(drawing):
    """All texts of a picture, in order."""
    return [element.text for element in texts(ElementTree.fromstring(drawing))]


def cells(drawing):
    """Every box but the background: (x, y, width, height), attributes, and the texts in it."""
    root = ElementTree.fromstring(drawing)
    found = []
    for box in list(root.iter(f"{SVG}rect"))[1:]:
        x, y, w, h = (float(box.get(key)) for key in ("x", "y", "width", "height"))
        inside = [
            e.text
            for e in texts(root)
            if e.get("text-anchor") == "middle"
            and x < float(e.get("x")) < x + w
            and y < float(e.get("y")) - 5 < y + h
        ]
        found.append(((x, y, w, h), box.attrib, inside))
    return found
