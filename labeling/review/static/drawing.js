// Boxes on a canvas.

const MANY = 120; // boxes; with more, only those that matter have a number and a dark rim, for drawing must keep up
const TRAIL = 40; // frames of a selected track's way that are drawn

// Draw the boxes of a frame; `state.count` is how many there were.
export function drawBoxes(context, { track, edges }, { x, y, scale }, state, before, frame) {
  const unit = devicePixelRatio;
  const shown = [];
  for (let place = 0; place < track.length; place += 1) {
    const look = state.look(track[place]);
    if (look.visible) shown.push({ look, box: edges.subarray(4 * place, 4 * place + 4) });
  }
  const weight = ({ look }) => (look.selected ? 2 : 0) + (look.hovered ? 1 : 0);
  shown.sort((one, other) => weight(one) - weight(other));
  state.count = shown.length;
  if (state.selection.size) drawTrails(context, { x, y, scale }, state, before, frame);
  context.font = `600 ${11.5 * unit}px ui-sans-serif, system-ui, "Segoe UI", Roboto, "Liberation Sans", sans-serif`;
  context.textBaseline = "middle";
  for (const { look, box } of shown) {
    const strong = look.selected || look.hovered;
    const faint = state.selection.size && !look.selected && !look.hovered;
    const [left, top] = [x + scale * box[0], y + scale * box[1]];
    const width = Math.max(scale * (box[2] - box[0]), 2 * unit);
    const height = Math.max(scale * (box[3] - box[1]), 2 * unit);
    context.globalAlpha = faint ? 0.45 : 1;
    context.setLineDash(look.kept ? [] : [5 * unit, 4 * unit]);
    const whole = shown.length <= MANY || strong;
    if (whole) {
      context.strokeStyle = "rgb(10 12 16 / .55)";
      context.lineWidth = (strong ? 5.5 : 3.5) * unit;
      context.strokeRect(left, top, width, height);
    }
    context.strokeStyle = look.colour;
    context.lineWidth = (strong ? 3 : 1.75) * unit;
    context.strokeRect(left, top, width, height);
    context.setLineDash([]);
    if (look.selected) {
      context.globalAlpha = 0.14;
      context.fillStyle = look.colour;
      context.fillRect(left, top, width, height);
      context.globalAlpha = 1;
    }
    if (whole) drawTag(context, look, left, top, strong, { y, unit });
  }
  context.globalAlpha = 1;
}

function drawTag(context, look, left, top, strong, { y, unit }) {
  const text = strong ? `${look.instance} ${look.name}` : String(look.instance);
  const wide = context.measureText(text).width + 8 * unit;
  const tall = 17 * unit;
  const inside = top - tall < y;
  const tagLeft = Math.max(0, Math.min(left - unit, context.canvas.width - wide));
  const tagTop = inside ? top : top - tall;
  context.fillStyle = look.colour;
  context.beginPath();
  context.roundRect(tagLeft, tagTop, wide, tall, inside ? [0, 0, 4 * unit, 0] : [4 * unit, 4 * unit, 4 * unit, 0]);
  context.fill();
  context.fillStyle = look.ink;
  context.fillText(text, tagLeft + 4 * unit, tagTop + tall / 2 + 0.5 * unit);
}

// Where the selected tracks were a moment ago, fading.
function drawTrails(context, { x, y, scale }, state, before, frame) {
  const ways = new Map();
  for (let back = 0; back <= Math.min(TRAIL, frame); back += 1) {
    const found = before(back);
    if (!found) break;
    for (let place = 0; place < found.track.length; place += 1) {
      const look = state.look(found.track[place]);
      if (!look.selected || !look.visible) continue;
      const box = found.edges.subarray(4 * place, 4 * place + 4);
      const point = [x + (scale * (box[0] + box[2])) / 2, y + (scale * (box[1] + box[3])) / 2, back];
      if (!ways.has(look.instance)) ways.set(look.instance, { look, points: [] });
      ways.get(look.instance).points.push(point);
    }
  }
  context.lineCap = "round";
  context.lineWidth = 2.5 * devicePixelRatio;
  for (const { look, points } of ways.values()) {
    context.strokeStyle = look.colour;
    for (let place = 1; place < points.length; place += 1) {
      const [before, after] = [points[place - 1], points[place]];
      if (after[2] - before[2] > 1) continue; // it was away in between
      context.globalAlpha = 0.8 * (1 - after[2] / TRAIL);
      context.beginPath();
      context.moveTo(before[0], before[1]);
      context.lineTo(after[0], after[1]);
      context.stroke();
    }
  }
  context.globalAlpha = 1;
}

// Instances of the boxes at a point of the video, the smallest first.
export function boxesUnder({ track, edges }, x, y, slack, state) {
  const found = [];
  for (let place = 0; place < track.length; place += 1) {
    const [x1, y1, x2, y2] = edges.subarray(4 * place, 4 * place + 4);
    if (x < x1 - slack || x > x2 + slack || y < y1 - slack || y > y2 + slack) continue;
    const look = state.look(track[place]);
    if (look.visible) found.push([(x2 - x1) * (y2 - y1), look.instance]);
  }
  return found.sort((one, other) => one[0] - other[0]).map(([, instance]) => instance);
}
