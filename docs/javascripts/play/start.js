// Begins with all pictures of the page that have data to play with.

(() => {
  "use strict";

  const { TilingPlayer, SchedulePlayer } = window.gemmLadder;
  const start = () => {
    for (const figure of document.querySelectorAll(".figure[data-play]")) {
      const data = window.gemmLadderPlay?.[figure.dataset.play];
      if (data) new (data.schedules ? SchedulePlayer : TilingPlayer)(figure, data);
    }
  };
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
